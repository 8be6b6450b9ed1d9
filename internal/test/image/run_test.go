package image_test

import (
	"archive/tar"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/image"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// runs starts the program in the files of an image for amd64: as root in these files alone and as nobody, who may write
// none of them, as containers do.
func runs(t *testing.T, files map[string]packed) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the program is for another machine")
	}
	_, manifests := layout(t, files)
	root := t.TempDir()
	unpack(t, root, unpacked(t, manifests[0].layer))
	const limits = "domain: edge\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: hour, requests_per_unit: 3}\n"
	folder := filepath.Join(root, "limits")
	must.OK(t, os.Mkdir(folder, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(folder, "edge.yaml"), []byte(limits), 0o644))
	must.OK(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(path, 0o555) //nolint:gosec // G302: the container runs as somebody else
		}
		return err
	}))
	t.Cleanup(func() { _ = os.Chmod(root, 0o755) }) //nolint:gosec // G302: or the folder can't be removed

	command := func(path string, env []string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(root, path), args...)
		cmd.Env, cmd.Dir = append(image.Env(), env...), root
		confine(cmd, root, path)
		return cmd
	}
	where := func(path string) string { return filepath.Join(command(image.Program, nil).Dir, path) }
	out := must.Get(command(image.Program, nil, "version").CombinedOutput())(t)
	if !regexp.MustCompile(`^weblimitd v\d`).Match(out) {
		t.Errorf("%s", out)
	}
	ratelimit := []string{"RUNTIME_ROOT=" + where("limits"), "RUNTIME_APPDIRECTORY=.", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1"}
	checked := must.Get(command(image.Entry, ratelimit, "--check").CombinedOutput())(t)
	check.Contains(t, "what it says", string(checked), "by the name ratelimit: --grpc-listen 0.0.0.0:8081\n")
	check.Contains(t, "what it says", string(checked), "1 domain")
	// Its own name has the ports of the image, and asks for tokens.
	refused, err := command(image.Program, []string{"WEBLIMIT_ENVOY_CONFIG=" + where("limits"), "WEBLIMIT_LISTEN=0.0.0.0:0", "WEBLIMIT_ADMIN_LISTEN=off", "WEBLIMIT_GRPC_LISTEN=off"}).CombinedOutput()
	if err == nil {
		t.Error("it lets everybody ask")
	}
	check.Contains(t, "why", string(refused), "everybody on the network")

	serve := command(image.Entry, append(slices.Clone(ratelimit), "PORT=0", "GRPC_PORT=0", "DEBUG_PORT=0"))
	log := new(child.Output)
	serve.Stdout, serve.Stderr = log, log
	began := time.Now()
	must.OK(t, child.Start(serve))
	defer func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	}()
	wait.Until(t, "it serves", func() bool { return strings.Contains(log.String(), "weblimitd: serving") })
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", serve.Process.Pid)))(t)
	t.Logf("serves after %v; %s", time.Since(began).Round(time.Millisecond), regexp.MustCompile(`VmRSS:\s+(\d+ kB)`).FindString(string(status)))
}

// unpack writes the files of a layer.
func unpack(t *testing.T, root string, files map[string]packed) {
	t.Helper()
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names) // folders before what is in them
	for _, name := range names {
		p, path := files[name], filepath.Join(root, name)
		switch p.Typeflag {
		case tar.TypeDir:
			must.OK(t, os.Mkdir(path, 0o755))
		case tar.TypeSymlink:
			must.OK(t, os.Symlink(p.Linkname, path))
		default:
			must.OK(t, os.WriteFile(path, p.content, os.FileMode(p.Mode)))
		}
	}
	must.OK(t, os.Chmod(root, 0o755)) //nolint:gosec // G302: as in an image
}
