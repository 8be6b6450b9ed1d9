package documents

import (
	"os"
	"runtime"
	"testing"
)

// Drawn compares a picture of docs with what a simulation draws, or writes it, which make plots asks for. name is that of the file in
// docs/pictures.
func Drawn(t *testing.T, name string, update bool, draw func(t *testing.T) (svg string)) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round logarithms in their own way, which gives other requests")
	}
	picture, svg := Root+"/docs/pictures/"+name, draw(t)
	if update {
		if err := os.WriteFile(picture, []byte(svg), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	drawn, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if string(drawn) != svg {
		t.Errorf("docs/pictures/%s is not what the simulation draws: run make plots and look at it", name)
	}
}
