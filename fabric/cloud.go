package fabric

import "strings"

// cloud identifies the provider by the marks that cloud-init's ds-identify and the
// providers' documents name. A Hyper-V VM is Azure only by its asset tag. Where a
// container hides DMI, the network cards of Amazon and Google identify them.
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
	case tag == "ibmcloud", strings.HasPrefix(chassis, "IBM:Cloud Compute Server"),
		strings.HasPrefix(vendor, "IBM:Cloud Compute Server"):
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

// virtual recognizes a hypervisor by the names in its firmware (the table of systemd's
// detect-virt). The CPU's own flag would be surer, but on many kernels reading /proc/cpuinfo stops
// every CPU for milliseconds. Metal instances of EC2 have the same vendor as its VMs.
func virtual(c Cloud, vendor, product string) bool {
	switch {
	case c.Provider == "aws" && c.SKU != "":
		return !strings.Contains(c.SKU, ".metal")
	case c.Provider == "azure", c.Provider == "gcp":
		return true
	}
	for _, mark := range []string{"QEMU", "KVM", "KubeVirt", "OpenStack", "VMware", "VirtualBox", "innotek", "Xen",
		"Bochs", "Parallels", "BHYVE", "Alibaba Cloud ECS"} {
		if strings.Contains(vendor, mark) || strings.Contains(product, mark) {
			return true
		}
	}
	return product == "Virtual Machine" // Hyper-V
}
