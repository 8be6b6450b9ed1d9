package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path"
	"strings"
)

// Media types of https://github.com/opencontainers/image-spec/blob/v1.1.1/media-types.md.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// epoch is the time of everything in an image.
const epoch = "1970-01-01T00:00:00Z"

// descriptor names a blob by what is in it.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type config struct {
	Created string `json:"created"`
	platform
	Config  settings  `json:"config"`
	RootFS  rootFS    `json:"rootfs"`
	History []history `json:"history"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// saved is what `docker save` wrote before it knew the layout. With it, each release of Docker loads the file.
type saved struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// Image is the image for one architecture.
type Image struct {
	Digest string // of its manifest
	Size   int    // of its layer, compressed

	manifest descriptor
	saved    saved // without a name
	blobs    blobs
}

// New lays out the image for an architecture, by its binary and certificate authorities.
func New(arch, binary string, roots []byte) (*Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	bill, err := billOf(arch, binary, digest(program))
	if err != nil {
		return nil, err
	}
	plain, compressed, err := layer(program, roots, bill)
	if err != nil {
		return nil, err
	}
	i := &Image{Size: len(compressed), blobs: blobs{}}
	on := platform{Architecture: arch, OS: "linux"}
	of := i.blobs.add(typeLayer, compressed)
	by := i.blobs.json(typeConfig, config{
		Created: epoch, platform: on, Config: describe(), RootFS: rootFS{Type: "layers", DiffIDs: []string{digest(plain)}},
		History: []history{{Created: epoch, CreatedBy: "make image"}},
	})
	i.manifest = i.blobs.json(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: by, Layers: []descriptor{of}})
	i.manifest.Platform = &on
	i.Digest = i.manifest.Digest
	i.saved = saved{Config: blobName(by.Digest), Layers: []string{blobName(of.Digest)}}
	return i, nil
}

// Write writes images as one OCI layout under a name with a tag, as a tar archive. That of one image is also what
// `docker load` has always read; of several, an index chooses by architecture.
func Write(w io.Writer, name string, images ...*Image) error {
	all := blobs{}
	var of index
	for _, i := range images {
		maps.Copy(all, i.blobs)
		of.Manifests = append(of.Manifests, i.manifest)
	}
	of.SchemaVersion, of.MediaType = 2, typeIndex
	top := images[0].manifest
	if len(images) > 1 {
		top = all.json(typeIndex, of)
	}
	_, tag, _ := strings.Cut(path.Base(name), ":")
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": familiar(name)}
	entries := map[string]entry{
		"oci-layout": {content: []byte(`{"imageLayoutVersion":"1.0.0"}`), mode: 0o644},
		"index.json": {content: text(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}}), mode: 0o644},
	}
	if len(images) == 1 {
		one := images[0].saved
		one.RepoTags = []string{name}
		entries["manifest.json"] = entry{content: text([]saved{one}), mode: 0o644}
	}
	for digest, blob := range all {
		entries[blobName(digest)] = entry{content: blob, mode: 0o644}
	}
	return archive(w, entries, true)
}

// familiar is the whole of a name that may have no registry, as containerd writes it.
func familiar(name string) string {
	registry, _, slash := strings.Cut(name, "/")
	switch {
	case !slash:
		return "docker.io/library/" + name
	case strings.ContainsAny(registry, ".:") || registry == "localhost":
		return name
	}
	return "docker.io/" + name
}

// blobs are the parts of a layout by their digests.
type blobs map[string][]byte

func (b blobs) add(mediaType string, blob []byte) descriptor {
	name := digest(blob)
	b[name] = blob
	return descriptor{MediaType: mediaType, Digest: name, Size: len(blob)}
}

func (b blobs) json(mediaType string, v any) descriptor { return b.add(mediaType, text(v)) }

// text is the JSON of a value of this package, of which there always is one. Maps are in the order of their keys.
func text(v any) []byte {
	t, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return t
}

func digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blobName is where a blob is in a layout.
func blobName(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }
