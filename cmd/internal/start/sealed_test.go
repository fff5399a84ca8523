package start

import (
	"errors"
	"testing"

	"launch/internal/exit"
)

// A line that is known to fail is refused for that, also where its program is not installed.
func TestALineThatIsKnownIsRefusedBeforeItsProgramIsMissed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	config := exit.Errorf(exit.Config, "refused")
	for _, tc := range []struct {
		argv []string
		code int
	}{
		{[]string{"docker", "run", "img", "torchrun", "t.py"}, exit.Config},
		{[]string{"torchrn", "t.py"}, exit.NotFound},
	} {
		s := &Start{Opt: NewOptions(), argv: tc.argv}
		if e, ok := errors.AsType[*exit.Error](s.unrunnable(config)); !ok || e.Code != tc.code {
			t.Errorf("%v: %+v, want status %d", tc.argv, e, tc.code)
		}
	}
}
