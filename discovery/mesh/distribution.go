package mesh

import "strings"

// annotationDistribution says on a ServiceEntry that its endpoints are to be preferred by how near they are.
const annotationDistribution = "networking.istio.io/traffic-distribution"

// annotationConnect says on a ServiceEntry how connections to a name are made that has several addresses.
const annotationConnect = "istio.io/connect-strategy"

// RacesConnections reports whether the first address counts that takes a connection, of all that the service's name stands for, in
// place of one that is chosen before.
func (s *Service) RacesConnections() bool {
	return s.ResolvedByDNS() && strings.EqualFold(s.Entry.Annotations[annotationConnect], "RACE_FIRST_TCP_CONNECT")
}

// Distribution lists the labels that an endpoint should share with its client, the most important first; none: all are alike.
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
