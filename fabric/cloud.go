package fabric

import "strings"

// cloud tells whose machine this is. The marks are those that cloud-init's
// ds-identify and the providers' own documents name; a Hyper-V VM is Azure only
// by its asset tag. Where a container hides DMI, Amazon's and Google's own
// network cards tell it.
func cloud(dmi *dir, bus []PCI) Cloud {
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
		if c.Provider == "" {
			c.Provider = map[string]string{vendorAmazon: "aws", vendorGoogle: "gcp"}[p.Vendor]
		}
	}
	c.Virtual = virtual(c, vendor, product)
	return c
}

// virtual tells a hypervisor by what its firmware calls itself (the table of
// systemd's detect-virt). The CPU's own flag would be surer, but to read
// /proc/cpuinfo stops every CPU for some milliseconds on many kernels. Metal
// instances of EC2 have the same vendor as its VMs.
func virtual(c Cloud, vendor, product string) bool {
	switch {
	case c.Provider == "aws" && c.SKU != "":
		return !strings.Contains(c.SKU, ".metal")
	case c.Provider == "azure", c.Provider == "gcp":
		return true
	}
	for _, mark := range []string{"QEMU", "KVM", "KubeVirt", "OpenStack", "VMware", "VirtualBox", "innotek", "Xen", "Bochs", "Parallels", "BHYVE", "Alibaba Cloud ECS"} {
		if strings.Contains(vendor, mark) || strings.Contains(product, mark) {
			return true
		}
	}
	return product == "Virtual Machine" // Hyper-V
}
