package mesh

import "strings"

// annotationDistribution says on a ServiceEntry that its endpoints are to be preferred by how near they are.
const annotationDistribution = "networking.istio.io/traffic-distribution"

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
