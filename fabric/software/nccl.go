package software

import (
	"path"
	"regexp"
	"strings"
)

var (
	// Every libnccl contains its own "NCCL version 2.27.5+cuda12.9", and RCCL its own
	// with +hip. torch's messages about other versions have no such suffix.
	ncclVersion = regexp.MustCompile(`^CCL version (\d+\.\d+\.\d+)[^+\x00 ]*\+(?:cuda|hip)`)
	// aws-ofi-nccl logs this constant when it starts.
	ofiVersion = regexp.MustCompile(`^aws-ofi-nccl (\d+\.[0-9A-Za-z.+-]*)`)
	// ncclFile matches a library with its version in its name.
	ncclFile = regexp.MustCompile(`\.so\.(\d+\.\d+\.\d+)$`)
	// ncclPackage is the wheel that torch's wheels depend on.
	ncclPackage = regexp.MustCompile(`^nvidia_nccl_cu\d+-(\d+\.\d+\.\d+)[^-]*\.dist-info$`)
)

// nccl returns the version of an NCCL library.
func (d detector) nccl(file string) Item {
	if file == "" {
		return Item{}
	}
	v := d.constant(file, "CCL version ", ncclVersion)
	if m := ncclFile.FindStringSubmatch(file); v == "" && m != nil {
		v = m[1]
	}
	return Item{Version: v, Path: file}
}

// torchNCCL returns the NCCL of a torch: the library that it is linked with, the one
// built into it, or the package next to it.
func (d detector) torchNCCL(lib, site string) Item {
	for _, name := range []string{"libtorch_cuda.so", "libtorch_hip.so"} {
		file := path.Join(lib, name)
		o, ok := d.object(file)
		if !ok {
			continue
		}
		item := Item{Path: file}
		if soname := o.needsNCCL(); soname != "" {
			item = d.nccl(d.loader.find(soname, o))
		} else {
			item.Version = d.constant(file, "CCL version ", ncclVersion)
		}
		if item.Version != "" {
			return item
		}
	}
	for _, name := range d.names(site) {
		if m := ncclPackage.FindStringSubmatch(name); m != nil {
			return Item{Version: m[1], Path: path.Join(site, name)}
		}
	}
	return Item{}
}

// plugin returns the network plugin that NCCL would load (src/plugin/net.cc, plugin_open.cc): the
// name in NCCL_NET_PLUGIN, as it is or within libnccl-net-NAME.so, else libnccl-net.so. If NCCL_NET
// names one of NCCL's own networks, NCCL uses no plugin.
func (d detector) plugin(f *Facts) {
	f.Plugin.Version = None
	if own := strings.ToLower(d.env("NCCL_NET")); own == "ib" || own == "socket" {
		return
	}
	names := []string{"libnccl-net.so"}
	if list := d.env("NCCL_NET_PLUGIN"); list != "" {
		names = nil
		for n := range strings.SplitSeq(list, ",") {
			names = append(names, n, "libnccl-net-"+n+".so")
		}
	}
	asks, _ := d.object(f.NCCL.Path)
	for _, n := range names {
		if strings.EqualFold(n, None) {
			return
		}
		file := d.loader.find(n, asks)
		if file == "" {
			continue
		}
		f.Plugin = Item{Version: d.identity(file), Path: file}
		if v := d.constant(file, "aws-ofi-nccl ", ofiVersion); v != "" {
			f.Plugin.Version = "aws-ofi-nccl " + v
		}
		if o, ok := d.object(file); ok {
			d.transports(f, o)
		}
		return
	}
}
