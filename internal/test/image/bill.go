package image

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/weblimit/weblimit/core"
)

// document is a bill of materials, SPDX 2.3: https://spdx.github.io/spdx-spec/v2.3/.
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []part         `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// part is a module of Go, or Go itself.
type part struct {
	SPDXID           string     `json:"SPDXID"`
	Name             string     `json:"name"`
	VersionInfo      string     `json:"versionInfo"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Checksums        []checksum `json:"checksums,omitempty"`
	ExternalRefs     []external `json:"externalRefs"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// billOf returns what a binary is made of, as the binary itself says: its modules, with the hashes of go.sum, and Go.
func billOf(arch, binary, digest string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	const whole = "SPDXRef-DOCUMENT"
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: whole, Name: "weblimitd-linux-" + arch,
		DocumentNamespace: "https://github.com/weblimit/weblimit/spdx/weblimitd-linux-" + arch + "-" + strings.TrimPrefix(digest, "sha256:"),
		CreationInfo:      creation{Created: epoch, Creators: []string{"Organization: The weblimit authors"}},
	}
	main := module(info.Main.Path, info.Main.Version, "")
	main.LicenseDeclared = "MIT"
	d.Packages = append(d.Packages, main, module("stdlib", strings.TrimPrefix(info.GoVersion, "go"), ""))
	for _, dep := range info.Deps {
		if r := dep.Replace; r != nil && r.Sum != "" { // without, it is a folder of this repository
			dep = r
		}
		d.Packages = append(d.Packages, module(dep.Path, dep.Version, dep.Sum))
	}
	d.Relationships = []relationship{{whole, "DESCRIBES", main.SPDXID}}
	for _, p := range d.Packages[1:] {
		d.Relationships = append(d.Relationships, relationship{main.SPDXID, "DEPENDS_ON", p.SPDXID})
	}
	return text(d), nil
}

// module is a part by its path, version and the hash that go.sum has for it. Modules of this repository have its version.
func module(path, version, sum string) part {
	if version == "" || version == "(devel)" {
		version = core.Version()
	}
	p := part{
		SPDXID: "SPDXRef-" + spdxID(path), Name: path, VersionInfo: version, DownloadLocation: "NOASSERTION", LicenseDeclared: "NOASSERTION", CopyrightText: "NOASSERTION",
		ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}},
	}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) > 0 {
		p.Checksums = []checksum{{"SHA256", hex.EncodeToString(hash)}} // of the list of its files and their hashes
	}
	return p
}

// spdxID has what SPDX permits in names: letters, digits, dots and dashes.
func spdxID(path string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, path)
}
