package gateways

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/documents"
)

// docs/service/gateways.md shows the configurations as they are.
func TestDocumentHasTheConfigurations(t *testing.T) {
	t.Parallel()
	page := documents.Read(t, "service/gateways.md")
	for _, p := range programs {
		for i, text := range p.read(t) {
			if !strings.Contains(page, "\n"+text+"```\n") {
				t.Errorf("docs/service/gateways.md does not have deploy/gateways/%s/%s as it is", p.folder, p.files[i])
			}
		}
	}
}
