package ui

import (
	"cmp"
	"fmt"
	"strings"

	"launch/fabric"
	"launch/fabric/rail"
)

// linkWord returns the name of a link: sysfs has InfiniBand for Omni-Path, and Unknown for EFA.
func linkWord(link, driver string, k rail.Kind) string {
	switch {
	case k == rail.EFA, driver == "efa":
		return "EFA"
	case k == rail.OmniPath, strings.HasPrefix(driver, "hfi"):
		return "Omni-Path"
	}
	return strings.TrimPrefix(link, "Unknown")
}

// around returns the system of a node, and how its HCAs reach the memory of a GPU.
func (u *UI) around(n fabric.Node) string {
	var words []string
	add := func(word, text string) {
		if text != "" {
			words = append(words, word+visible(text))
		}
	}
	add("Linux ", n.Kernel)
	cloud := n.Cloud.Provider
	if !strings.HasSuffix(n.Product, n.Cloud.SKU) {
		cloud = strings.TrimSpace(cloud + " " + n.Cloud.SKU)
	}
	add("cloud ", cloud)
	if n.Cloud.Virtual {
		add("", "a virtual machine")
	}
	add("in ", n.Container.Kind)
	if len(n.HCAs) > 0 {
		add("RDMA namespaces ", n.Container.RDMA)
	}
	lines := []string{strings.Join(words, ", ")}
	if g := n.GPUDirect; g.Peermem || g.DMABuf != "" {
		peermem := map[bool]string{true: "peermem is loaded", false: "peermem is not loaded"}[g.Peermem]
		lines = append(lines, fmt.Sprintf("GPUDirect RDMA: %s; DMA-BUF: %s", peermem, cmp.Or(visible(g.DMABuf), "unknown")))
	}
	var b strings.Builder
	for _, line := range lines {
		if line != "" {
			b.WriteString(u.paragraph(line))
		}
	}
	return b.String()
}
