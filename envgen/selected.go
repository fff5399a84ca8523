package envgen

import (
	"fmt"
	"slices"
	"strings"
)

// Selected are the RDMA ports that the settings choose among those of this node,
// each as its rate and link layer ("400 Gb/s InfiniBand"), by the variable that
// chooses. A variable that is not set, that chooses what the training fabric is
// anyway, or that leaves nothing (which Lint tells), is not there.
func Selected(in Input) map[string][]string {
	v := look(in)
	out := map[string][]string{}
	choose := func(name string, takes func(p hcaPort) bool) {
		var words []string
		alike := true
		for _, p := range v.ncclPorts() {
			if takes(p) {
				words = append(words, fmt.Sprintf("%g Gb/s %s", p.Rate, p.LinkLayer))
			}
			alike = alike && takes(p) == contains(v.rails(), p)
		}
		if !alike && len(words) > 0 {
			out[name] = words
		}
	}
	if d, ok := v.decided("NCCL_IB_HCA"); ok && v.gpus() && !v.vendorPlugin() {
		f := parseFilter(d.Value, maxIBs)
		choose(d.Name, func(p hcaPort) bool { return f.match(p.hca.Name, p.Num) })
	}
	// UCX (src/ucs/config/parser.c) also takes patterns and ranges: not judged.
	if d, ok := v.decided("UCX_NET_DEVICES"); ok && v.ucx() && d.Value != "all" && !strings.ContainsAny(d.Value, "[*?") {
		list, not := strings.CutPrefix(d.Value, "^")
		names := strings.Split(list, ",")
		choose(d.Name, func(p hcaPort) bool {
			return (slices.Contains(names, p.hca.Name) || slices.Contains(names, p.String())) != not
		})
	}
	return out
}
