package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/documents"
	"github.com/weblimit/weblimit/internal/test/image"
	"github.com/weblimit/weblimit/internal/test/must"
)

const name = "weblimitd:test"

// The image is the same whenever it is made, holds to the rules of its format, and has the program under both names,
// certificate authorities and a bill of materials. Its program runs as nobody, in a file system that it can't write.
func TestImage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the program for each architecture")
	}
	dir, roots := t.TempDir(), []byte("authorities\n")
	var all, again []*image.Image
	for _, arch := range image.Architectures() {
		binary := must.Get(image.Build(documents.Root, dir, arch))(t)
		all, again = append(all, must.Get(image.New(arch, binary, roots))(t)), append(again, must.Get(image.New(arch, binary, roots))(t))
	}
	for i, arch := range image.Architectures() {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, "the digest of the same image", again[i].Digest, all[i].Digest)
			files := unpacked(t, written(t, all[i]))
			if !bytes.Equal(written(t, all[i]), written(t, again[i])) {
				t.Error("the same image is another file")
			}
			names, manifests := layout(t, files)
			check.Equal(t, "images", len(manifests), 1)
			check.Equal(t, "architecture", manifests[0].arch, arch)
			check.Equal(t, "digest", manifests[0].digest, all[i].Digest)
			docker(t, files, names)
			inside(t, manifests[0], roots)
		})
	}
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		_, manifests := layout(t, unpacked(t, written(t, all...)))
		for i, m := range manifests {
			check.Equal(t, "architecture", m.arch, image.Architectures()[i])
			check.Equal(t, "digest", m.digest, all[i].Digest)
		}
		check.Equal(t, "images", len(manifests), len(all))
	})
	t.Run("it runs", func(t *testing.T) {
		t.Parallel()
		runs(t, unpacked(t, written(t, all[0])))
	})
}

func written(t *testing.T, images ...*image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, image.Write(&b, name, images...))
	return b.Bytes()
}

// packed is an entry of a tar archive.
type packed struct {
	*tar.Header
	content []byte
}

// unpacked reads a tar archive as a program does that trusts it: folders come first, and no name leads outside.
func unpacked(t *testing.T, archive []byte) map[string]packed {
	t.Helper()
	all, last := map[string]packed{}, ""
	for from := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must.OK(t, err)
		entry := strings.TrimSuffix(h.Name, "/")
		if !filepath.IsLocal(entry) || filepath.Clean(entry) != entry {
			t.Errorf("%q leads elsewhere", h.Name)
		}
		if parent := filepath.Dir(entry); parent != "." && all[parent].Header == nil {
			t.Errorf("%s is before its folder", h.Name)
		}
		if _, twice := all[entry]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		if h.Typeflag != tar.TypeDir && entry < last {
			t.Errorf("%s is behind %s", h.Name, last)
		}
		if last = entry; h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("%s tells who has written it, and when: %+v", h.Name, h)
		}
		all[entry] = packed{h, must.Get(io.ReadAll(from))(t)}
	}
}

// inside checks the files of an image, and how it is started.
func inside(t *testing.T, m found, roots []byte) {
	t.Helper()
	files := unpacked(t, m.layer)
	for entry, p := range files {
		switch p.Typeflag {
		case tar.TypeDir:
			check.Equal(t, "mode of "+entry, p.Mode, 0o755)
		case tar.TypeReg:
			check.Equal(t, "may others write "+entry, p.Mode&0o022, 0)
		}
	}
	program, link := files[image.Program], files[image.Entry]
	check.Equal(t, "mode of the program", program.Mode, 0o755)
	check.Equal(t, "link of the other name", link.Typeflag, tar.TypeSymlink)
	check.Equal(t, "where the link leads", filepath.Join(filepath.Dir(image.Entry), link.Linkname), image.Program)
	check.Equal(t, "authorities", string(files[image.Roots].content), string(roots))
	binary := must.Get(elf.NewFile(bytes.NewReader(program.content)))(t)
	check.Equal(t, "machine", binary.Machine, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[m.arch])
	if binary.Section(".interp") != nil {
		t.Error("the program needs a library that the image lacks")
	}
	if bytes.Contains(program.content, []byte(must.Get(filepath.Abs(documents.Root))(t))) {
		t.Error("the program has a folder of this machine in it")
	}
	if size := len(m.compressed); size > 20<<20 || len(program.content) > 50<<20 {
		t.Errorf("%d bytes, and %d of the program", size, len(program.content))
	}
	t.Logf("%s: %.1f MB, compressed %.1f MB", m.arch, float64(len(m.layer))/1e6, float64(len(m.compressed))/1e6)
	bill(t, files[image.Bill].content)

	c := m.config.Config
	check.Equal(t, "user", c.User, "65532:65532")
	check.Slices(t, "entry", c.Entrypoint, []string{"/weblimitd"})
	check.Slices(t, "variables", c.Env, image.Env())
	check.Equal(t, "health check", strings.Join(c.Healthcheck.Test, " "), "CMD /weblimitd healthcheck")
	check.Equal(t, "ports", len(c.ExposedPorts), len(image.Ports()))
	check.Equal(t, "title", c.Labels["org.opencontainers.image.title"], "weblimitd")
}

// bill checks that the bill of materials is SPDX, and names what the program is made of.
func bill(t *testing.T, content []byte) {
	t.Helper()
	var d struct {
		SPDXVersion, DataLicense, SPDXID, DocumentNamespace string
		Packages                                            []struct {
			SPDXID, Name, VersionInfo, DownloadLocation string
			Checksums                                   []struct{ ChecksumValue string }
		}
		Relationships []struct{ SpdxElementID, RelationshipType, RelatedSpdxElement string }
	}
	must.OK(t, json.Unmarshal(content, &d))
	check.Equal(t, "version of SPDX", d.SPDXVersion, "SPDX-2.3")
	check.Equal(t, "license of the bill", d.DataLicense, "CC0-1.0")
	ids, hashed := map[string]bool{d.SPDXID: true}, map[string]string{}
	for _, p := range d.Packages {
		if strings.HasPrefix(p.Name, ".") {
			t.Errorf("%s is a folder, and no module", p.Name)
		}
		if ids[p.SPDXID] || p.VersionInfo == "" || p.DownloadLocation == "" {
			t.Errorf("%+v", p)
		}
		ids[p.SPDXID] = true
		if len(p.Checksums) > 0 {
			hashed[p.Name] = p.Checksums[0].ChecksumValue
		}
	}
	for _, r := range d.Relationships {
		if !ids[r.SpdxElementID] || !ids[r.RelatedSpdxElement] {
			t.Errorf("%+v is about something else", r)
		}
	}
	check.Equal(t, "relationships", len(d.Relationships), len(d.Packages))
	for _, dep := range []string{"github.com/redis/go-redis/v9", "google.golang.org/grpc", "github.com/jackc/pgx/v5"} {
		check.Equal(t, "length of the hash of "+dep, len(hashed[dep]), 64)
	}
	if !ids["SPDXRef-stdlib"] || !ids["SPDXRef-github.com-weblimit-weblimit"] {
		t.Error("Go or weblimit is not in the bill")
	}
}

// gunzip returns what was compressed, which has neither a name nor a time.
func gunzip(t *testing.T, compressed []byte) []byte {
	t.Helper()
	z := must.Get(gzip.NewReader(bytes.NewReader(compressed)))(t)
	if z.Name != "" || !z.ModTime.IsZero() {
		t.Errorf("the layer tells when it was written: %+v", z.Header)
	}
	return must.Get(io.ReadAll(z))(t)
}

// The scripts and pages that name a file of the image name one that is there.
func TestDocsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile(filepath.Join(documents.Root, "docs/service/weblimitd.md")))(t))
	for _, file := range []string{image.Program, image.Entry, image.Bill} {
		check.Contains(t, "docs/service/weblimitd.md", text, "`/"+file+"`")
	}
}
