package companion

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
)

func TestLaunchAnswersWhatNameItWaitsFor(t *testing.T) {
	since := time.Now().Truncate(time.Second)
	var now atomic.Pointer[Naming]
	for range 100 { // the address is free again after each end
		now.Store(&Naming{Host: "other"})
		ShowNaming(t.Context(), &now)()
	}
	stop := ShowNaming(t.Context(), &now)
	now.Store(&Naming{Host: "train-0.train", Why: "no such host", Since: since, Do: "kubectl"})
	_, news := asked(t, os.Getpid())
	if len(news) != 1 || news[0].Naming == nil {
		t.Fatalf("%+v", news)
	}
	if n := *news[0].Naming; n.Host != "train-0.train" || n.Why != "no such host" || !n.Since.Equal(since) ||
		n.Do != "kubectl" {
		t.Errorf("%+v", n)
	}
	stop()
	if _, news = asked(t, os.Getpid()); len(news) > 0 {
		t.Errorf("after its end: %+v", news)
	}
}
