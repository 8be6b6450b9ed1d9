package gateways

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/documents"
)

// The page of each gateway, such as docs/service/nginx.md, shows its configuration as it is.
func TestDocumentsHaveTheConfigurations(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		name := "service/" + p.folder + ".md"
		page := documents.Read(t, name)
		for i, text := range p.read(t) {
			if !strings.Contains(page, "\n"+text+"```\n") {
				t.Errorf("docs/%s does not have deploy/gateways/%s/%s as it is", name, p.folder, p.files[i])
			}
		}
	}
}
