package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes one image for all architectures, as an archive of the OCI image layout: /launch, static, and nothing
// else. No registry is asked.
func (r release) image(builds []build) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range builds {
		data, err := os.ReadFile(filepath.Join(b.tree, b.static()))
		if err != nil {
			return err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			var out bytes.Buffer
			t := tar.NewWriter(&out)
			if err := r.put(t, "launch", 0o755, data); err != nil {
				return nil, err
			}
			return io.NopCloser(&out), t.Close()
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		image, err = mutate.AppendLayers(image, layer)
		if err != nil {
			return err
		}
		image, err = mutate.ConfigFile(image, r.config(image, b))
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.arch}}})
	}
	dir, err := os.MkdirTemp("", "launch-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": "launch:" + r.version}}})); err != nil {
		return err
	}
	out, err := os.Create(r.name("image.tar"))
	if err != nil {
		return err
	}
	defer out.Close()
	return r.tar(out, build{tree: dir}, func(name string) string { return name })
}

// config returns the configuration of an image.
func (r release) config(image v1.Image, b build) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil {
		c = &v1.ConfigFile{}
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", b.arch, v1.Time{Time: r.time}
	c.Config = v1.Config{Entrypoint: []string{"/launch"}, User: "1000"}
	return c
}
