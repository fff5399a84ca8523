package start

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"launch/internal/exit"
	"launch/internal/job"
	"launch/rendezvous"
)

// What launch status says of a store that does not answer: whose fault it is as far as this node sees it.
func TestAStoreThatIsGoneIsNamed(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	lost := fmt.Errorf("%w: x", rendezvous.ErrUnreachable)
	for _, tc := range []struct {
		at        job.Store
		says, fix string
	}{
		{job.Store{Host: "127.0.0.1", Port: port}, fmt.Sprintf("nothing listens at 127.0.0.1:%d: launch has not started "+
			"there, has ended", port), "look at what launch printed last on 127.0.0.1"},
		{job.Store{Host: "no-such-host.invalid", Port: port}, "store unreachable: x", "getent hosts no-such-host.invalid"},
	} {
		e, ok := errors.AsType[*exit.Error](Unreached(t.Context(), lost, tc.at))
		if !ok || e.Code != exit.Unreachable || !strings.Contains(e.What, tc.says) ||
			!strings.HasPrefix(e.Fix, tc.fix) || !strings.HasSuffix(e.Fix, WithoutStore) {
			t.Errorf("%s: %v, fix %q; want %q, %q", tc.at.Host, e, e.Fix, tc.says, tc.fix)
		}
	}
	what, fix := lostStore(job.Store{Host: "host0", Port: port}, nil, context.DeadlineExceeded)
	if !strings.Contains(what, "nothing answers at host0") ||
		!strings.HasPrefix(fix, "launch status --store host0   # on another node") {
		t.Errorf("%s; %s", what, fix)
	}
	slow := &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	if what, fix = lostStore(job.Store{Host: "host0"}, slow, slow); !strings.Contains(what, "no address of host0") ||
		strings.Contains(fix, "spelled") {
		t.Errorf("a slow name server: %s; %s", what, fix)
	}
	if got := Unreached(t.Context(), rendezvous.ErrToken, job.Store{}); !errors.Is(got, rendezvous.ErrToken) {
		t.Errorf("another error became %v", got)
	}
}
