package start

import (
	"net/netip"
	"testing"
	"time"

	"launch/cmd/internal/storeaddr"
	"launch/internal/finding"
)

// One line says which of the addresses of the store's name hosts the store.
func TestWhichAddressHostsTheStoreIsSaid(t *testing.T) {
	known := finding.Map([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, netip.MustParseAddr)
	at := func(i int) *storeaddr.Rival { return &storeaddr.Rival{At: known[i]} }
	for want, c := range map[string]storeaddr.Choice{
		"trainer has 3 addresses: this node, 10.0.0.1, the first, hosts the store": {Known: known},
		"trainer has 3 addresses: 10.0.0.1, the first, hosts the store":            {Known: known, Store: at(0)},
		"trainer has 3 addresses: 10.0.0.2 hosts the store":                        {Known: known, Store: at(1)},
		"trainer has 3 addresses: this node, 10.0.0.2, hosts the store, as no store answered at 10.0.0.1 for 2.1s": {
			Known: known, Silent: known[:1], Waited: 2100 * time.Millisecond},
	} {
		own := 1
		if len(c.Silent) == 0 {
			own = 0
		}
		if got := chosen("trainer", c, func(a netip.Addr) bool { return a == known[own] }); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
