package sidechannel

import (
	"io"
	"net"
	"net/netip"
	"testing"
)

// between passes connections on to a listener, and resets each once it has carried limit bytes towards it.
func between(t *testing.T, to netip.AddrPort, limit int64) netip.AddrPort {
	return server(t, func(c net.Conn) {
		there, err := net.Dial("tcp", to.String())
		if err != nil {
			return
		}
		defer there.Close()
		go func() { _, _ = io.Copy(c, there) }()
		_, _ = io.CopyN(there, c, limit)
		_ = c.(*net.TCPConn).SetLinger(0)
	})
}

// A connection that a machine between resets is cut, and shows nothing of the sizes of packets.
func TestAConnectionThatIsResetBetween(t *testing.T) {
	l, to := listen(t, nil)
	opt := Options{Bulk: 256 << 10, IfMTU: 1500}
	for name, tt := range map[string]struct {
		limit int64
		cut   bool
	}{"once it carries data": {20 << 10, true}, "never": {1 << 30, false}} {
		a, err := Probe(t.Context(), between(t, to, tt.limit), nil, opt)
		if err != nil || a.ID != l.id || a.Bulk.Cut != tt.cut || tt.cut && a.MTU != (MTU{}) {
			t.Errorf("%s: got %+v, %v", name, a, err)
		}
	}
}
