package fabric

import "strings"

// cloud tells whose machine this is. The marks are those that cloud-init's
// ds-identify and the providers' own documents name; a Hyper-V VM is Azure only
// by its asset tag. Where a container hides DMI, Amazon's and Google's own
// network cards tell it.
func cloud(dmi *dir, cpuinfo string, bus []PCI) Cloud {
	vendor, product := dmi.line("sys_vendor"), dmi.line("product_name")
	tag, chassis := dmi.line("chassis_asset_tag"), dmi.line("chassis_vendor")
	var c Cloud
	switch {
	case vendor == "Amazon EC2":
		c = Cloud{Provider: "aws", SKU: product}
	case strings.HasPrefix(product, "Google Compute Engine"):
		c.Provider = "gcp"
	case tag == "7783-7084-3265-9085-8269-3286-77":
		c.Provider = "azure"
	case tag == "OracleCloud.com":
		c.Provider = "oci"
	case vendor == "Alibaba Cloud":
		c.Provider = "alibaba"
	case tag == "ibmcloud", strings.HasPrefix(chassis, "IBM:Cloud Compute Server"), strings.HasPrefix(vendor, "IBM:Cloud Compute Server"):
		c.Provider = "ibm"
	}
	for _, p := range bus {
		if own := map[string]string{vendorAmazon: "aws", vendorGoogle: "gcp"}[p.Vendor]; c.Provider == "" && own != "" {
			c.Provider = own
		}
	}
	c.Virtual = virtual(c, vendor, product, cpuinfo)
	return c
}

// virtual tells a hypervisor: x86 has a CPU flag for it, and elsewhere the
// firmware names it. Metal instances of EC2 have the same vendor as its VMs.
func virtual(c Cloud, vendor, product, cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if key, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "flags" {
			return strings.Contains(" "+strings.TrimSpace(flags)+" ", " hypervisor ")
		}
	}
	switch {
	case c.Provider == "aws" && c.SKU != "":
		return !strings.Contains(c.SKU, ".metal")
	case c.Provider == "azure", c.Provider == "gcp":
		return true
	}
	for _, mark := range []string{"QEMU", "KVM", "VMware", "innotek", "Xen", "Bochs", "Parallels"} {
		if strings.Contains(vendor, mark) {
			return true
		}
	}
	return product == "Virtual Machine" || product == "KVM"
}
