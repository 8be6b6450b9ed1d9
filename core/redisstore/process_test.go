package redisstore_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// programs are what processes of tests do. Each returns its report, and what it holds it holds until the test ends the
// process.
var programs = map[string]func(t *testing.T, client *redis.Client, prefix string) (report any){
	"hammer": hammer,
	"block":  hammerBlocks,
	"hold":   holdSlots,
}

// processOrder says what a process does.
type processOrder struct{ Program, Network, Addr, Prefix string }

const (
	processVariable = "WEBLIMIT_PROCESS" // holds the order
	reportMark      = "report: "
)

// TestProcess is not a test: it is a process of other tests.
func TestProcess(t *testing.T) {
	var order processOrder
	if err := json.Unmarshal([]byte(os.Getenv(processVariable)), &order); err != nil {
		t.Skip("run by other tests")
	}
	client := redis.NewClient(&redis.Options{Network: order.Network, Addr: order.Addr, PoolSize: 16})
	defer client.Close()
	report := must.Get(json.Marshal(programs[order.Program](t, client, order.Prefix)))(t)
	fmt.Printf("\n%s%s\n", reportMark, report)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

// process is a process that runs a program.
type process struct {
	*exec.Cmd
	out io.Reader
}

// startProcess starts a program on the shared server. It is killed when the test ends.
func startProcess(t *testing.T, program, prefix string) *process {
	t.Helper()
	server := redistest.Shared(t)
	order := must.Get(json.Marshal(processOrder{program, server.Network(), server.Addr(), prefix}))(t)
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^TestProcess$")}
	p.Env = append(os.Environ(), processVariable+"="+string(order))
	p.Stderr = os.Stderr
	must.Get(p.StdinPipe())(t)
	p.out = must.Get(p.StdoutPipe())(t)
	must.OK(t, child.Start(p.Cmd))
	t.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// report reads what the program reports.
func (p *process) report(t *testing.T, into any) {
	t.Helper()
	var all strings.Builder
	for lines := bufio.NewScanner(p.out); lines.Scan(); {
		if report, ok := strings.CutPrefix(lines.Text(), reportMark); ok {
			must.OK(t, json.Unmarshal([]byte(report), into))
			return
		}
		all.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("the process ended without a report:\n%s", &all)
}

// reportsOf runs a program in several processes at a time, and returns their reports.
func reportsOf[R any](t *testing.T, program, prefix string) []R {
	t.Helper()
	running, reports := make([]*process, hammerProcesses), make([]R, hammerProcesses)
	for i := range running {
		running[i] = startProcess(t, program, prefix)
	}
	for i, p := range running {
		p.report(t, &reports[i])
	}
	return reports
}
