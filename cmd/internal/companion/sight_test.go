package companion

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"launch/fabric"
	"launch/rendezvous"
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

// A port of the store that takes no call is one without an answer: not one that refuses it, or of another address.
func TestAStoreThatTakesNoCall(t *testing.T) {
	silent := strconv.Itoa(silentPort(t))
	l, err := net.Listen("tcp", "127.77.77.77:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	open := l.Addr().String()
	for _, tt := range []struct {
		name, store string
		embedded    bool
		want        bool
	}{
		{"it has no answer", "127.77.77.77:" + silent, true, true},
		{"it is open", open, true, false},
		{"it refuses calls", "127.77.77.77:1", true, false},
		{"the store has another address of that node", "127.0.0.1:" + silent, true, false},
		{"an etcd", "127.77.77.77:" + silent, false, false},
	} {
		p := &companion{ctx: t.Context(), spec: &Spec{Embedded: tt.embedded, Endpoints: []string{tt.store}}}
		n := rendezvous.Partner{Addr: netip.MustParseAddr("127.77.77.77")}
		if got := p.storeShut(n, 200*time.Millisecond); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
