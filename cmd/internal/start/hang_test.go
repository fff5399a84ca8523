package start

import (
	"errors"
	"testing"
	"time"

	"launch/internal/exit"
)

func TestOnHangIsSayOrEnd(t *testing.T) {
	for _, tt := range []struct {
		onHang string
		after  time.Duration
		want   int
	}{
		{"say", time.Second, 0}, {"end", time.Second, 0}, {"say", 0, 0},
		{"end", 0, exit.Config}, {"", time.Second, 0}, {"stop", time.Second, exit.Usage},
	} {
		o := NewOptions()
		o.OnHang, o.HangAfter = tt.onHang, tt.after
		got := 0
		if e, ok := errors.AsType[*exit.Error](o.Check(nil)); ok {
			got = e.Code
		}
		if got != tt.want {
			t.Errorf("--on-hang %q, --hang-after %v: status %d, want %d", tt.onHang, o.HangAfter, got, tt.want)
		}
	}
}
