package screening_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/roamcard/roamcard/internal/screening"
)

// A list is text, JSON, or the SDN list of OFAC; all of them are recognised by how they begin.
func ExampleParse() {
	for _, list := range []string{
		"# text, one address a line\n0x52908400098527886E0F7030069857D2E4169EE7\n",
		`["0x52908400098527886e0f7030069857d2e4169ee7"]`,
	} {
		addresses, err := screening.Parse(strings.NewReader(list))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(addresses)
	}
	// Output:
	// [0x52908400098527886E0F7030069857D2E4169EE7]
	// [0x52908400098527886E0F7030069857D2E4169EE7]
}
