package clients

import (
	"flag"
	"os"
	"testing"
)

// These tests wait for clients that wait, so more of them run at once than there are
// processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
