package image

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Architectures are those that the image is for, by their names in Go and in the image format.
func Architectures() []string { return []string{"amd64", "arm64"} }

// Build compiles weblimitd for Linux into a folder, and returns the file. root is the folder of this repository. The
// file is the same wherever and whenever it is built, by one release of Go.
func Build(root, dir, arch string) (string, error) {
	binary := filepath.Join(dir, Program+"-"+arch)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary, ".")
	cmd.Dir = filepath.Join(root, "cmd", "weblimitd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return binary, nil
}

// SystemRoots returns the certificate authorities of this machine, of which Redis, PostgreSQL and collectors of traces have
// certificates.
func SystemRoots() ([]byte, error) {
	for _, name := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if text, err := os.ReadFile(name); err == nil {
			return text, nil
		}
	}
	return nil, errors.New("the image needs the system's certificate authorities: install ca-certificates")
}

func ports() map[string]struct{} {
	all := map[string]struct{}{}
	for _, port := range Ports() {
		all[strconv.Itoa(port)+"/tcp"] = struct{}{}
	}
	return all
}
