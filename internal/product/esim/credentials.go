package esim

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"strings"

	"github.com/boombuler/barcode/qr"

	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/secret"
)

// Credentials are the activation data of a profile in the forms that devices read. Nothing of it is logged or cached.
type Credentials struct {
	ActivationData
	// LPA is the activation code.
	LPA secret.Text
	// QRSVG and QRPNG show the LPA.
	QRSVG, QRPNG secret.Text
	// IOS and Android open the installation on the device itself.
	IOS, Android secret.Text
}

// Credentials decrypts the activation data of an order. The caller checks who may see it.
func (e *Esims) Credentials(ctx context.Context, o order.Order) (Credentials, error) {
	p, err := e.delivered(ctx, o)
	if err != nil {
		return Credentials{}, err
	}
	m, err := e.Keys.Open(o.ID, p.ActivationData)
	if err != nil {
		return Credentials{}, err
	}
	return credentials(m)
}

// The pages of the vendors that install a profile on the device that opens them.
const (
	iosInstall     = "https://esimsetup.apple.com/esim_qrcode_provisioning?carddata="
	androidInstall = "https://esimsetup.android.com/esim_qrcode_provisioning?carddata="
)

func credentials(m ActivationData) (Credentials, error) {
	lpa := LPA(m)
	code, err := qr.Encode(lpa, qr.M, qr.Auto)
	if err != nil {
		// The encoder's own error would quote the text.
		return Credentials{}, fmt.Errorf("encode the QR code of %d characters", len(lpa))
	}
	picture, err := drawPNG(code)
	if err != nil {
		return Credentials{}, err
	}
	data := url.QueryEscape(lpa)
	return Credentials{
		ActivationData: m, LPA: secret.New(lpa), QRSVG: secret.New(drawSVG(code)), QRPNG: secret.New(picture),
		IOS: secret.New(iosInstall + data), Android: secret.New(androidInstall + data),
	}, nil
}

// LPA is the activation code of SGP.22, section 4.1: format 1, SM-DP+ address, matching id, and the SM-DP+ OID if the
// supplier told one.
func LPA(m ActivationData) string {
	code := "LPA:1$" + m.SMDPAddress.Reveal() + "$" + m.MatchingID.Reveal()
	if m.OID.IsZero() {
		return code
	}
	return code + "$" + m.OID.Reveal()
}

const (
	// quiet is the white border that the QR standard asks for, in modules.
	quiet = 4
	// dot is the size of a module in the PNG, in pixels.
	dot = 8
)

// drawSVG draws each run of dark modules as one stroke of a path.
func drawSVG(code image.Image) string {
	size := code.Bounds().Dx()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges">`,
		size+2*quiet, size+2*quiet)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/><path fill="#000" d="`)
	for y := range size {
		for x := 0; x < size; x++ {
			run := 0
			for x+run < size && dark(code, x+run, y) {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", x+quiet, y+quiet, run, run)
				x += run
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.String()
}

func drawPNG(code image.Image) (string, error) {
	size := code.Bounds().Dx()
	side := (size + 2*quiet) * dot
	picture := image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.White, color.Black})
	for y := range size * dot {
		for x := range size * dot {
			if dark(code, x/dot, y/dot) {
				picture.SetColorIndex(x+quiet*dot, y+quiet*dot, 1)
			}
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		return "", fmt.Errorf("encode the QR code: %w", err)
	}
	return out.String(), nil
}

func dark(code image.Image, x, y int) bool {
	r, _, _, _ := code.At(code.Bounds().Min.X+x, code.Bounds().Min.Y+y).RGBA()
	return r == 0
}
