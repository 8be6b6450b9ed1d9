package image_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// descriptor, as in https://github.com/opencontainers/image-spec/blob/v1.1.1/descriptor.md.
type descriptor struct {
	MediaType   string
	Digest      string
	Size        int
	Annotations map[string]string
	Platform    struct{ Architecture, OS string }
}

// configuration, as in config.md there.
type configuration struct {
	Created, Architecture, OS string
	Config                    struct {
		User         string
		ExposedPorts map[string]struct{}
		Env          []string
		Entrypoint   []string
		Labels       map[string]string
		Healthcheck  struct{ Test []string }
	}
	RootFS struct {
		Type    string
		DiffIDs []string `json:"diff_ids"`
	}
	History []struct {
		EmptyLayer bool `json:"empty_layer"`
	}
}

// found is one image of a layout.
type found struct {
	arch, digest      string
	config            configuration
	layer, compressed []byte
}

// layout checks a layout by the rules of image-layout.md, image-index.md, manifest.md and config.md, and returns its
// blobs and its images.
func layout(t *testing.T, files map[string]packed) (blobs map[string][]byte, all []found) {
	t.Helper()
	check.Equal(t, "oci-layout", string(files["oci-layout"].content), `{"imageLayoutVersion":"1.0.0"}`)
	blobs = map[string][]byte{}
	for name, p := range files {
		if hash, is := strings.CutPrefix(name, "blobs/sha256/"); is {
			sum := sha256.Sum256(p.content)
			check.Equal(t, "what "+name+" has", hex.EncodeToString(sum[:]), hash)
			blobs["sha256:"+hash] = p.content
		}
	}
	used := map[string]bool{}
	read := func(d descriptor, into any) []byte {
		t.Helper()
		blob, there := blobs[d.Digest]
		if !there || len(blob) != d.Size {
			t.Errorf("%+v: there are %d bytes", d, len(blob))
		}
		used[d.Digest] = true
		if into != nil {
			must.OK(t, json.Unmarshal(blob, into))
		}
		return blob
	}
	var images func(list []byte)
	images = func(list []byte) {
		var index struct {
			SchemaVersion int
			MediaType     string
			Manifests     []descriptor
		}
		must.OK(t, json.Unmarshal(list, &index))
		check.Equal(t, "schema of an index", index.SchemaVersion, 2)
		check.Equal(t, "type of an index", index.MediaType, "application/vnd.oci.image.index.v1+json")
		for _, d := range index.Manifests {
			if d.MediaType == index.MediaType {
				images(read(d, nil))
				continue
			}
			check.Equal(t, "type of a manifest", d.MediaType, "application/vnd.oci.image.manifest.v1+json")
			all = append(all, imageOf(t, d, read))
		}
	}
	top := files["index.json"].content
	images(top)
	check.Equal(t, "blobs that something names", len(used), len(blobs))
	var first struct{ Manifests []descriptor }
	must.OK(t, json.Unmarshal(top, &first))
	check.Equal(t, "images by name", len(first.Manifests), 1)
	check.Equal(t, "tag", first.Manifests[0].Annotations["org.opencontainers.image.ref.name"], "test")
	check.Equal(t, "name", first.Manifests[0].Annotations["io.containerd.image.name"], "docker.io/library/"+name)
	return blobs, all
}

// imageOf checks the manifest of one image, and what it names.
func imageOf(t *testing.T, d descriptor, read func(descriptor, any) []byte) (f found) {
	t.Helper()
	var m struct {
		SchemaVersion int
		MediaType     string
		Config        descriptor
		Layers        []descriptor
	}
	read(d, &m)
	check.Equal(t, "schema of a manifest", m.SchemaVersion, 2)
	check.Equal(t, "type in a manifest", m.MediaType, d.MediaType)
	check.Equal(t, "type of a configuration", m.Config.MediaType, "application/vnd.oci.image.config.v1+json")
	read(m.Config, &f.config)
	if len(m.Layers) != 1 {
		t.Fatalf("%d layers", len(m.Layers))
	}
	check.Equal(t, "type of a layer", m.Layers[0].MediaType, "application/vnd.oci.image.layer.v1.tar+gzip")
	f.compressed = read(m.Layers[0], nil)
	f.layer = gunzip(t, f.compressed)
	sum := sha256.Sum256(f.layer)
	check.Slices(t, "layers of the configuration", f.config.RootFS.DiffIDs, []string{"sha256:" + hex.EncodeToString(sum[:])})
	check.Equal(t, "type of the file system", f.config.RootFS.Type, "layers")
	check.Equal(t, "layers in the history", len(f.config.History), 1)
	check.Equal(t, "system", f.config.OS+" "+d.Platform.OS, "linux linux")
	check.Equal(t, "architecture of the configuration", f.config.Architecture, d.Platform.Architecture)
	f.arch, f.digest = d.Platform.Architecture, d.Digest
	return f
}

// docker checks what older releases of Docker read in place of the index.
func docker(t *testing.T, files map[string]packed, blobs map[string][]byte) {
	t.Helper()
	var saved []struct {
		Config           string
		RepoTags, Layers []string
	}
	must.OK(t, json.Unmarshal(files["manifest.json"].content, &saved))
	check.Equal(t, "images for docker load", len(saved), 1)
	check.Slices(t, "tags", saved[0].RepoTags, []string{name})
	for _, blob := range slices.Concat(saved[0].Layers, []string{saved[0].Config}) {
		if blobs["sha256:"+strings.TrimPrefix(blob, "blobs/sha256/")] == nil {
			t.Errorf("docker load finds no %s", blob)
		}
	}
}
