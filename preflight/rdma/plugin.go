package rdma

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"launch/fabric/rail"
	"launch/fabric/software"
	"launch/internal/finding"
)

// refusesEFA finds a plugin that takes no EFA with the libfabric that it would load. aws-ofi-nccl compares fi_version()
// with what it needs since 1.8.0, and needs 1.22 since 1.13.0 (src/nccl_ofi_net.c; the release notes of v1.9.0-aws).
func refusesEFA(s software.Facts, kind rail.Kind) (finding.Finding, bool) {
	has, known := release(s.Libfabric.Version)
	m := regexp.MustCompile(`^aws-ofi-nccl 1\.(\d+)\.`).FindStringSubmatch(s.Plugin.Version)
	if kind != rail.EFA || !known || m == nil {
		return finding.Finding{}, false
	}
	minor, _ := strconv.Atoi(m[1]) // digits
	least := []int{}
	switch {
	case minor >= 13:
		least = []int{1, 22}
	case minor >= 8:
		least = []int{1, 18}
	}
	number := func(v []int) string { return fmt.Sprintf("%d.%d", v[0], v[1]) }
	if len(least) == 0 || slices.Compare(has, least) >= 0 {
		return finding.Finding{}, false
	}
	f := finding.Warnf("the plugin %s refuses EFA with libfabric %s: it needs %s or later", s.Plugin.Version,
		number(has), number(least))
	return f.See(s.Plugin.Path, "%s", s.Plugin.Version).See(s.Libfabric.Path, "libfabric %s", number(has)).
		Breaking("NCCL takes TCP, at a fraction of the rate, and reports it only with NCCL_DEBUG=WARN (\"EFA provider "+
			"requires at least libfabric version %s.0\")", number(least)).
		Do("export LD_LIBRARY_PATH=/opt/amazon/efa/lib:/opt/amazon/efa/lib64:$LD_LIBRARY_PATH   # of the EFA installer\n"+
			"if that is too old, too: use a newer EFA installer; ldd %s shows which file it finds", s.Plugin.Path), true
}

// release returns the release of a libfabric by the name of its file, which libtool numbers: 1.17 is libfabric.so.1.20
// and 2.0 is libfabric.so.1.26 (-version-info in its Makefile.am, from 1.14 to 2.1). Copies in other packages have no
// such name.
func release(identity string) (version []int, known bool) {
	const first, two, shift = 17, 26, 3
	m := regexp.MustCompile(`^libfabric\.so\.1\.(\d+)\.\d+ `).FindStringSubmatch(identity)
	if m == nil {
		return nil, false
	}
	n, _ := strconv.Atoi(m[1]) // digits
	switch {
	case n >= two:
		return []int{2, n - two}, true
	case n >= first:
		return []int{1, n - shift}, true
	}
	return nil, false
}
