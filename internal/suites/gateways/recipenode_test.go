package gateways

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// node runs recipes that are JavaScript, for one request after the other.
type node struct {
	in  *json.Encoder
	out *json.Decoder
}

func startNode(t *testing.T, env ...string) *node {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command("node", "testdata/recipes/run.mjs")
	said := new(child.Output)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), said
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.OK(t, child.Start(cmd))
	t.Cleanup(func() {
		_ = in.Close() // which ends it
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("node has written\n%.4000s", said)
		}
	})
	return &node{json.NewEncoder(in), json.NewDecoder(out)}
}

// run runs a recipe, and reads what comes of it.
func (n *node) run(t *testing.T, input, output any) {
	t.Helper()
	must.OK(t, n.in.Encode(input))
	must.OK(t, n.out.Decode(output))
}
