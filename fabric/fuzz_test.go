package fabric

import (
	"slices"
	"testing"
	"testing/fstest"
)

// A driver may write anything into the files of an HCA or an interface.
func FuzzDevices(f *testing.F) {
	f.Add("mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", "0x31", "0xffff", "fe80:0000:0000:0000:b83f:d203:00a1:0000",
		"RoCE v2", "eth0", "1: CA", "DRIVER=mlx5_core\nDEVTYPE=vlan")
	f.Add("x", "", "2.5 Gb/sec (1X SDR)", "-1", "0x8000", "::", "", "..", "9", "=\n=")
	f.Fuzz(func(t *testing.T, name, state, rate, lid, pkey, gid, typ, netdev, node, uevent string) {
		files := map[string]string{
			"infiniband/dev/node_type": node, "infiniband/dev/fw_ver": lid, "infiniband/dev/hca_type": typ,
			"infiniband/dev/node_guid": gid, "infiniband/dev/parent": netdev,
			"infiniband/dev/device/uevent": uevent, "infiniband/dev/device/numa_node": lid,
			"infiniband/dev/ports/1/state": state, "infiniband/dev/ports/1/phys_state": state,
			"infiniband/dev/ports/1/rate": rate,
			"infiniband/dev/ports/1/lid":  lid, "infiniband/dev/ports/1/sm_lid": lid, "infiniband/dev/ports/1/link_layer": typ,
			"infiniband/dev/ports/1/pkeys/7": pkey, "infiniband/dev/ports/1/pkeys/10": "0x8001",
			"infiniband/dev/ports/1/pkeys/x": pkey,
			"infiniband/dev/ports/1/gids/3":  gid, "infiniband/dev/ports/1/gid_attrs/types/3": typ,
			"infiniband/dev/ports/1/gid_attrs/ndevs/3": netdev,
			"infiniband_verbs/uverbs3/ibdev":           name,
			"net/eth0/ifindex":                         lid, "net/eth0/flags": state, "net/eth0/type": node, "net/eth0/mtu": lid,
			"net/eth0/speed":  rate,
			"net/eth0/uevent": uevent, "net/eth0/operstate": typ, "net/eth0/dev_port": node, "net/eth0/device/uevent": uevent,
		}
		sys := fstest.MapFS{}
		for file, text := range files {
			sys["class/"+file] = &fstest.MapFile{Data: []byte(text)}
		}
		n := Detect(t.Context(), Roots{Sys: sys}, Options{})
		if len(n.HCAs) != 1 || len(n.HCAs[0].Ports) != 1 || len(n.Interfaces) != 1 {
			t.Fatalf("%d HCAs, %d interfaces", len(n.HCAs), len(n.Interfaces))
		}
		p := n.HCAs[0].Ports[0]
		if !(p.Rate >= 0 && p.Rate < 1e6) || p.Lanes < 0 || p.Lanes > 12 || len(p.GIDs) > 1 || n.Interfaces[0].Speed < 0 {
			t.Errorf("port %+v, interface %+v", p, n.Interfaces[0])
		}
		if !slices.ContainsFunc(p.PKeys, func(k PKey) bool { return k == PKey{Index: 10, Key: "0x8001"} }) {
			t.Errorf("partition keys %v, want the one of entry 10 whatever is before it", p.PKeys)
		}
		for _, g := range p.GIDs {
			if g.Index != 3 || !g.Addr.IsValid() {
				t.Errorf("GID %+v", g)
			}
		}
	})
}
