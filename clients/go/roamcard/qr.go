package roamcard

import (
	"fmt"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// QR draws a QR code for a terminal in half blocks, two modules to a character, light on the terminal's dark.
func QR(content string) (string, error) {
	code, err := qr.Encode(content, qr.M, qr.Auto)
	if err != nil {
		// The encoder's own error would quote the text.
		return "", fmt.Errorf("encode the QR code of %d characters", len(content))
	}
	const quiet = 2 // modules of light around it; terminals have little room
	size := code.Bounds().Dx()
	light := func(x, y int) bool {
		if x < 0 || y < 0 || x >= size || y >= size {
			return y < size+quiet
		}
		r, _, _, _ := code.At(x, y).RGBA()
		return r > 0
	}
	var text strings.Builder
	for y := -quiet; y < size+quiet; y += 2 {
		for x := -quiet; x < size+quiet; x++ {
			switch {
			case light(x, y) && light(x, y+1):
				text.WriteRune('█')
			case light(x, y):
				text.WriteRune('▀')
			case light(x, y+1):
				text.WriteRune('▄')
			default:
				text.WriteRune(' ')
			}
		}
		text.WriteByte('\n')
	}
	return text.String(), nil
}
