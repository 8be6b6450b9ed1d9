package page

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/observed"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

var pictures = flag.String("pictures", "", "the folder for the pictures of the documents: make screenshots")

// The pictures of README.md and docs/run/inspect.md: the page of examples/observed on Redis after two
// minutes, with the explanation of a client that is denied, light and dark.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("-pictures says where to")
	}
	shop := observed.Start(t, redistest.StartTCP(t).Addr())
	time.Sleep(2*time.Minute + 12*time.Second) // the plots show two minutes; the scrapers are at work
	p := openAs(t, shop.URLs[0]+"/ops/limits/", "ops", shop.Password, watching)
	p.look(t, 1240, 1120, "light")
	p.await(t, `document.querySelectorAll('#denied tbody tr').length > 2`)
	p.run(t, chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('#denied tbody button')].find(b => b.textContent.startsWith('Price Hunter')).click()`))
	p.await(t, `!document.getElementById('explain').hidden`)
	for name, scheme := range map[string]string{"inspect.png": "light", "inspect-dark.png": "dark"} {
		p.look(t, 1240, 1120, scheme)
		time.Sleep(2500 * time.Millisecond) // until the focus is no longer drawn and numbers are fresh
		shot := must.Get(chromedp.Run(p, chromedp.CaptureScreenshot()))(t)
		decoded := must.Get(png.Decode(bytes.NewReader(shot)))(t)
		var file bytes.Buffer
		encoder := png.Encoder{CompressionLevel: png.BestCompression}
		must.OK(t, encoder.Encode(&file, few(decoded)))
		must.OK(t, os.WriteFile(filepath.Join(*pictures, name), file.Bytes(), 0o644))
	}
	p.check(t)
}

// few returns an image in the 256 colours that it has most of. Others, of letters' edges, become the
// nearest of these. Such files are a third as large.
func few(of image.Image) image.Image {
	count := map[color.RGBA]int{}
	for y := of.Bounds().Min.Y; y < of.Bounds().Max.Y; y++ {
		for x := of.Bounds().Min.X; x < of.Bounds().Max.X; x++ {
			count[color.RGBAModel.Convert(of.At(x, y)).(color.RGBA)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range most[:min(256, len(most))] {
		palette = append(palette, c)
	}
	reduced := image.NewPaletted(of.Bounds(), palette)
	draw.Draw(reduced, of.Bounds(), of, of.Bounds().Min, draw.Src)
	return reduced
}
