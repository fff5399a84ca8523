package rail

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// expected is an expert's description of a machine (fabric-expected/1). A null means
// "not shown", and is never compared.
type expected struct {
	Name   string `json:"name"`
	Fabric struct {
		Kind *string `json:"kind"`
	} `json:"fabric"`
	Devices []expectedDevice `json:"devices"`
	GPUs    struct {
		Count   *int          `json:"count"`
		Devices []expectedGPU `json:"devices"`
	} `json:"gpus"`
	Best *[]string `json:"best_hca"`
	GID  *int      `json:"roce_gid_index"`
	Bare []struct {
		PCI string `json:"pci"`
	} `json:"pci_hcas_without_rdma"`
}

type expectedDevice struct {
	Name     *string        `json:"name"`
	Driver   *string        `json:"driver"`
	PCI      *string        `json:"pci"`
	NUMA     *int           `json:"numa"`
	Type     *string        `json:"hca_type"`
	Firmware *string        `json:"fw_ver"`
	Board    *string        `json:"board_id"`
	VF       *bool          `json:"is_vf"`
	Ports    []expectedPort `json:"ports"`
	Usable   *bool          `json:"usable_for_training"`
	Role     *string        `json:"role"`
}

type expectedPort struct {
	Num       int      `json:"num"`
	State     *string  `json:"state"`
	PhysState *string  `json:"phys_state"`
	Rate      *float64 `json:"rate_gbps"`
	LinkLayer *string  `json:"link_layer"`
	Netdev    *string  `json:"netdev"`
	LID       *int     `json:"lid"`
	SMLID     *int     `json:"sm_lid"`
	GIDs      []struct {
		Index  int     `json:"index"`
		GID    *string `json:"gid"`
		Type   *string `json:"type"` // v1, v2, IB
		Netdev *string `json:"netdev"`
	} `json:"gids"`
}

type expectedGPU struct {
	PCI      *string           `json:"pci"`
	Nearest  []string          `json:"nearest_nics"`
	Distance map[string]string `json:"distance"`
}

// recorded returns the machines next to the project, each with its tree.
func recorded(t *testing.T) (folder string, trees map[string]string) {
	t.Helper()
	folder = os.Getenv("LAUNCH_MACHINES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "shared", "machines")
	}
	trees = map[string]string{}
	for _, kind := range []string{"derived", "raw"} { // raw wins
		found, err := filepath.Glob(filepath.Join(folder, "*", kind, "sysfs.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			trees[filepath.Base(filepath.Dir(filepath.Dir(f)))] = f
		}
	}
	if len(trees) == 0 {
		t.Skipf("no recorded machine in %s; LAUNCH_MACHINES names a folder of them", folder)
	}
	return folder, trees
}

func readExpected(t *testing.T, folder, name string) (e expected) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return e
}
