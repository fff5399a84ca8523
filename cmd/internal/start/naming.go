package start

import (
	"context"
	"sync"
	"sync/atomic"

	"launch/cmd/internal/companion"
	"launch/cmd/internal/storeaddr"
)

// nameWait answers launch doctor while the store's name does not resolve. Its zero value is ready.
type nameWait struct {
	now  atomic.Pointer[companion.Naming]
	mu   sync.Mutex
	over bool
	stop func() // nil: nothing is shown
}

// show replaces what launch doctor is answered.
func (w *nameWait) show(ctx context.Context, n companion.Naming) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now.Store(&n)
	if w.stop == nil && !w.over {
		w.stop = companion.ShowNaming(ctx, &w.now)
	}
}

// end ends the answers for good: a look-up may still run.
func (w *nameWait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
	w.over, w.stop = true, nil
}

// nameFix is what to look at where a name does not resolve.
func (s *Start) nameFix(host string, err error) string {
	return Failure(s.inPod(&storeaddr.NameError{Host: host, Err: err}), nil).Fix
}
