package companion

import (
	"testing"

	"launch/fabric"
)

// What is said of a node that takes no call does not deny what else it answers.
func TestWhatIsSaidOfANodeThatTakesNoCall(t *testing.T) {
	for _, tt := range []struct {
		seen sight
		want string
	}{
		{sight{is: isAbsent}, "nothing answers at its address"},
		{sight{is: isAbsent, sign: fabric.Pings}, isFiltered},
		{sight{is: isAbsent, sign: fabric.ARPAlone}, isMute},
		{sight{is: isStopped, sign: fabric.Pings}, string(isStopped)},
		{sight{is: hasEnded, sign: fabric.ARPAlone}, string(hasEnded)},
	} {
		if got := tt.seen.String(); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.seen.is, got, tt.want)
		}
	}
}
