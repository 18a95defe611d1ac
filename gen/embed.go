// Package gen embeds generated files that the service shows as they are.
package gen

import _ "embed"

// OpenAPI is the OpenAPI 3.1 description of the REST API, as JSON. Its server is relative;
// whoever publishes it names the base URL.
//
//go:embed openapi/openapi.json
var OpenAPI []byte
