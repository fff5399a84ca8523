package envgen

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
	"launch/internal/finding"
)

// wantPKey is for the partition table: a key's highest bit is full membership (IBTA
// 10.9.3). A first entry that is not set is not a full membership either.
func (v *view) wantPKey() want {
	keys, seen, ok := v.partitions()
	switch {
	case len(v.rails()) == 0:
		return right("there is no InfiniBand here")
	case !ok:
		return right("entry 0 of the partition table is a full membership on all rails, or unknown")
	}
	index, why := v.partition(keys)
	if index < 0 {
		return right("no entry of the partition table is a full membership on all HCAs")
	}
	return want{value: strconv.Itoa(index), wrong: "NCCL would use entry 0, which is not a full membership on all rails",
		because: "entry " + strconv.Itoa(index) + why, seen: seen}
}

// lackPartition finds rails that are limited members in entry 0 and have no full membership in common.
func lackPartition(v *view) finding.Finding {
	keys, seen, ok := v.partitions()
	if !ok || !v.gpus() || v.Mpirun || v.has("NCCL_IB_PKEY") {
		return none()
	}
	if index, _ := v.partition(keys); index >= 0 {
		return none()
	}
	f := finding.Warnf("entry 0 of the partition table is not a full membership on all rails, and no other index is one " +
		"of the same partition on all").
		Breaking("ports that are limited members cannot reach each other: NCCL's connections time out").
		Do("ask the fabric's administrator for a full membership of one partition, at the same index on all ports")
	f.Seen = seen
	return f
}

// partitions returns the key on each rail for each index that is a full membership on all rails; false: entry 0 is a
// full membership on all, or a table is unknown.
func (v *view) partitions() (keys map[int][]int, seen []finding.Seen, ok bool) {
	first := true // entry 0 is a full membership on all
	for _, p := range v.rails() {
		if p.LinkLayer != infiniBand || len(p.PKeys) == 0 {
			return nil, nil, false
		}
		first = first && p.PKeys[0].Index == 0 && p.PKeys[0].Full()
		own := map[int][]int{}
		for _, k := range p.PKeys {
			if before, on := keys[k.Index]; k.Full() && (on || keys == nil) {
				own[k.Index] = append(slices.Clone(before), leadingInt(k.Key, 0))
			}
		}
		keys = own
		seen = append(seen, p.pkeysSeen())
	}
	return keys, seen, keys != nil && !first
}

// partition returns the entry for the rails, and why; -1: no entry is right. The partition in use is the one whose
// IPoIB interface has an address.
func (v *view) partition(keys map[int][]int) (index int, why string) {
	all := slices.Sorted(maps.Keys(keys))
	if len(all) > 1 || v.shared() { // of the same partition on all rails
		all = slices.DeleteFunc(all, func(i int) bool {
			return slices.ContainsFunc(keys[i], func(key int) bool { return key != keys[i][0] })
		})
	}
	for _, i := range all {
		if name, ok := v.ipoib(keys[i][0]); ok {
			return i, " is one, and " + name + " has an address in that partition"
		}
	}
	switch len(all) {
	case 0:
		return -1, ""
	case 1:
		return all[0], " is one"
	}
	return all[0], fmt.Sprintf(" is the first of %d (a guess)", len(all))
}

// shared reports whether all rails are full members of one partition, at any index. Otherwise each may have its own.
func (v *view) shared() bool {
	var common []int
	for i, p := range v.rails() {
		own := rail.Partitions(p.Port)
		if i == 0 {
			common = own
		}
		common = slices.DeleteFunc(slices.Clone(common), func(k int) bool { return !slices.Contains(own, k) })
	}
	return len(common) > 0
}

// ipoib returns the IPoIB interface with an address for a partition other than the default one: its name ends with the
// key (drivers/infiniband/ulp/ipoib/ipoib_vlan.c).
func (v *view) ipoib(key int) (name string, ok bool) {
	for _, i := range v.Node.Interfaces {
		_, suffix, child := strings.Cut(i.Name, ".")
		of, err := strconv.ParseUint(suffix, 16, 16)
		if child && err == nil && int(of)&0x7fff == key&0x7fff && i.Kind == "ipoib" && i.Up && len(i.Addrs) > 0 {
			return i.Name, true
		}
	}
	return "", false
}

func (p hcaPort) pkeysSeen() finding.Seen {
	words := finding.Map(p.PKeys, func(k fabric.PKey) string { return fmt.Sprintf("%d: %s", k.Index, k.Key) })
	return finding.Seen{Where: fmt.Sprintf("/sys/class/infiniband/%s/ports/%d/pkeys", p.hca.Name, p.Num),
		What: strings.Join(words, ", ")}
}
