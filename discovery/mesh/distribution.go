package mesh

import "strings"

// annotationDistribution says on a ServiceEntry to prefer near endpoints.
const annotationDistribution = "networking.istio.io/traffic-distribution"

// annotationConnect says on a ServiceEntry how to connect to a name with several addresses.
const annotationConnect = "istio.io/connect-strategy"

// RacesConnections reports whether a proxy tries all addresses of the service's name, and uses the
// first that answers, instead of choosing one beforehand.
func (s *Service) RacesConnections() bool {
	return s.ResolvedByDNS() && strings.EqualFold(s.Entry.Annotations[annotationConnect], "RACE_FIRST_TCP_CONNECT")
}

// Distribution lists the labels that an endpoint should share with its client, the most important
// first. None means that all endpoints are alike.
func (s *Service) Distribution() []string {
	switch strings.ToLower(s.Entry.Annotations[annotationDistribution]) {
	case "preferclose", "prefersamezone":
		return []string{LabelNetwork, LabelRegion, LabelZone}
	case "prefersamenode":
		return []string{LabelNetwork, LabelRegion, LabelZone, LabelSubzone, "kubernetes.io/hostname"}
	default:
		return nil
	}
}
