package start

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"launch/preflight/peers"
)

func TestPackagesThatOnlyShowWhatRanksDoAreNotCompared(t *testing.T) {
	found := map[string]string{"trainlib": "1.2", "tqdm": "4.1", "torch": "2.15.0", "torch/__init__.py": "sha256 1",
		"rich/__init__.py": "sha256 2", "psutil.py": "sha256 3", "torchvision": "0.30"}
	got := slices.Sorted(maps.Keys(packages(found)))
	if diff := cmp.Diff([]string{"torchvision", "trainlib"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	many := map[string]string{}
	for i := range 2 * peers.MostModules {
		many[fmt.Sprintf("p%02d", i)] = "1"
	}
	if got := packages(many); len(got) != peers.MostModules || got["p00"] == "" {
		t.Errorf("of many packages these are posted: %v", got)
	}
}
