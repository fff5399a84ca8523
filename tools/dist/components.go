package main

import (
	"debug/buildinfo"
	"os"
	"path/filepath"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// components writes which modules are in launch, in CycloneDX's form, as the Go linker has recorded them.
func (r release) components(b build) error {
	info, err := buildinfo.ReadFile(filepath.Join(b.tree, "usr/bin/launch"))
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z07:00"),
		Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: "launch", Version: r.version}}
	parts := []cdx.Component{{Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: "pkg:golang/" + m.Path + "@" + m.Version})
	}
	bom.Components = &parts
	f, err := os.Create(r.name("sbom.cdx.json"))
	if err != nil {
		return err
	}
	defer f.Close()
	return cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}
