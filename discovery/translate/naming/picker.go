package naming

// How a picker says which endpoints it has chosen, and is told which one has answered, by the Gateway
// API's protocol for endpoint pickers: in a header, or in metadata.
const (
	ChosenEndpoint   = "x-gateway-destination-endpoint"
	AnsweredEndpoint = "x-gateway-destination-endpoint-served"
	ChoiceMetadata   = "envoy.lb"
)
