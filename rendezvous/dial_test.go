package rendezvous

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// closing is a connection that counts its ends.
type closing struct {
	net.Conn
	addr   string
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}

// A name of two addresses, of which one does not answer, costs no more than the head start.
func TestTheFirstAddressThatAnswersCounts(t *testing.T) {
	const silent = time.Hour
	refused, reset := errors.New("refused"), errors.New("reset")
	type host struct {
		after time.Duration
		err   error
	}
	for name, tc := range map[string]struct {
		hosts  []host
		want   string // the address
		err    error
		after  time.Duration
		closed int
	}{
		"one":                  {hosts: []host{{time.Second, nil}}, want: "a", after: time.Second},
		"the first is in time": {hosts: []host{{headStart / 2, nil}, {0, nil}}, want: "a", after: headStart / 2},
		"the first is silent":  {hosts: []host{{silent, nil}, {0, nil}}, want: "b", after: headStart},
		"the first refuses":    {hosts: []host{{0, refused}, {0, nil}}, want: "b"},
		"two are silent": {hosts: []host{{silent, nil}, {silent, nil}, {0, nil}}, want: "c",
			after: 2 * headStart},
		"all fail": {hosts: []host{{0, refused}, {time.Second, reset}}, err: refused, after: time.Second},
		"the first answers late": {hosts: []host{{headStart * 3 / 2, nil}, {headStart, nil}}, want: "a",
			after: headStart * 3 / 2, closed: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed := 0
				dial := func(ctx context.Context, addr string) (net.Conn, error) {
					h := tc.hosts[addr[0]-'a']
					if h.after == silent {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					time.Sleep(h.after)
					return closing{addr: addr, closed: &closed}, h.err
				}
				addrs, began := []string{"a", "b", "c"}[:len(tc.hosts)], time.Now()
				c, err := race(t.Context(), addrs, dial)
				took := time.Since(began)
				if !errors.Is(err, tc.err) || err == nil && c.(closing).addr != tc.want || took != tc.after {
					t.Errorf("%v, %v after %s, want %q after %s", c, err, took, tc.want, tc.after)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if closed != tc.closed {
					t.Errorf("%d connections closed, want %d", closed, tc.closed)
				}
			})
		})
	}
}
