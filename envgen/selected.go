package envgen

import (
	"fmt"
	"slices"
	"strings"
)

// Selected returns the RDMA ports of this node that the settings choose, each as its rate and link
// layer ("400 Gb/s InfiniBand"), by variable. It leaves out a variable that is not set, that
// chooses exactly the training fabric, or that chooses no port (which Lint reports).
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
	// UCX (src/ucs/config/parser.c) also accepts patterns and ranges: not judged.
	if d, ok := v.decided("UCX_NET_DEVICES"); ok && v.ucx() && d.Value != "all" &&
		!strings.ContainsAny(d.Value, "[*?") {
		list, not := strings.CutPrefix(d.Value, "^")
		names := strings.Split(list, ",")
		choose(d.Name, func(p hcaPort) bool {
			return (slices.Contains(names, p.hca.Name) || slices.Contains(names, p.String())) != not
		})
	}
	return out
}

// Ports returns the RDMA ports that the settings allow NCCL's own module, as it names
// them ("mlx5_0:1"); empty if they allow none. It is nil if they do not choose: then
// the plan chooses the rails.
func Ports(in Input) []string {
	v := look(in)
	out := []string{}
	if strings.EqualFold(v.value("NCCL_NET"), "Socket") || leadingInt(v.value("NCCL_IB_DISABLE"), 0) != 0 {
		return out
	}
	d, ok := v.decided("NCCL_IB_HCA")
	if !ok || d.Value == "" || v.vendorPlugin() {
		return nil
	}
	f := parseFilter(d.Value, maxIBs)
	for _, p := range v.ncclPorts() {
		if f.match(p.hca.Name, p.Num) {
			out = append(out, p.String())
		}
	}
	return out
}
