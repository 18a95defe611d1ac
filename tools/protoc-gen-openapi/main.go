// Command protoc-gen-openapi describes the REST interface of the protos it is given as one OpenAPI 3.1 document.
//
// It reads, for each rpc, google.api.http (paths, parameters, bodies), roamcard.v1.policy (security,
// headers, problems, payment), for each field buf.validate (what is required, limits, formats), and
// the comments. What it cannot translate is an error, so that nothing is left out in silence.
package main

import (
	"flag"
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	var flags flag.FlagSet
	faults := flags.String("faults", "internal/fault",
		"the package of the server's problem codes, seen from the working folder")
	protogen.Options{ParamFunc: flags.Set}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		problems, err := readCatalogue(*faults)
		if err != nil {
			return fmt.Errorf("read the catalogue of problems: %w", err)
		}
		content, err := describe(plugin.Request.GetProtoFile(), plugin.Request.GetFileToGenerate(), problems)
		if err != nil {
			return err
		}
		_, err = plugin.NewGeneratedFile("openapi.json", "").Write(content)
		return err
	})
}
