package fabric

import (
	"path"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestLinkErrors(t *testing.T) {
	at := func(port string) string { return path.Join(classInfiniBand, "mlx5_0/ports", port, "counters") }
	sys := fstest.MapFS{}
	files(sys, at("1"), map[string]string{"link_downed": "255", "symbol_error": "3",
		"port_rcv_errors": "18446744073709551615"})
	files(sys, at("2"), map[string]string{"link_downed": "N/A (no PMA)", "symbol_error": "3", "port_rcv_errors": "0"})
	seen := watched{MapFS: sys, names: map[string]bool{}, mu: new(sync.Mutex)}
	got, err := ReadLinkErrors(seen, "mlx5_0", 1)
	if diff := cmp.Diff(LinkErrors{Downed: 255, Symbols: 3, Packets: 1<<64 - 1}, got); diff != "" || err != nil {
		t.Errorf("port 1, error %v (-want +got):\n%s", err, diff)
	}
	for _, port := range []int{2, 3} {
		clear(seen.names)
		if got, err := ReadLinkErrors(seen, "mlx5_0", port); err == nil || got != (LinkErrors{}) || len(seen.names) != 1 {
			t.Errorf("port %d: %+v, %v after %v; want the first error alone", port, got, err, seen.names)
		}
	}
}
