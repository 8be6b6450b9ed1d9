package mcp_test

import (
	"fmt"

	"github.com/weblimit/weblimit/llmlimit/mcp"
)

// A name that is there twice is an error at start-up.
func ExampleNew() {
	tools, err := mcp.New(mcp.Config{Tools: []string{"search", "render"}})
	fmt.Println(tools != nil, err)
	_, err = mcp.New(mcp.Config{Tools: []string{"search", "search"}})
	fmt.Println(err)
	// Output:
	// true <nil>
	// weblimit: mcp: Config.Tools: "search" is empty, longer than 128 bytes, taken or there twice
}
