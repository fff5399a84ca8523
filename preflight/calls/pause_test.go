package calls

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAProcessThatRunsHasNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		longest := WatchPauses()
		time.Sleep(10 * time.Second)
		if got := longest(); got > 2*pauseTick {
			t.Errorf("a pause of %v", got)
		}
	})
}
