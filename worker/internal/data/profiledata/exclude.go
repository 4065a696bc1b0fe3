package profiledata

import (
	"path"
	"slices"
	"strings"
)

// cacheDirs are directories, at any depth, that Chromium recreates.
var cacheDirs = []string{
	"Cache", "Code Cache", "Media Cache", "Application Cache", "Shared Dictionary", "blob_storage",
	"GPUCache", "GPUPersistentCache", "ShaderCache", "GrShaderCache", "GraphiteDawnCache",
	"DawnCache", "DawnGraphiteCache", "DawnWebGPUCache",
	"Crashpad", "Crash Reports", "BrowserMetrics", "DeferredBrowserMetrics",
}

// downloadedDirs are top-level directories of components that Chromium downloads, and of
// files that clients upload.
var downloadedDirs = []string{
	"component_crx_cache", "extensions_crx_cache", "Safe Browsing", "SafetyTips", "Subresource Filter", "WidevineCdm",
	"optimization_guide_model_store", "OptimizationGuideModelsManifest", "OptGuideOnDeviceModel", "OptGuideOnDeviceClassifierModel",
	"OnDeviceHeadSuggestModel", "PKIMetadata", "CertificateRevocation", "CRLSet", "FileTypePolicies", "OriginTrials", "MEIPreload",
	"hyphen-data", "ZxcvbnData", "TrustTokenKeyCommitments", "SSLErrorAssistant", "Crowd Deny", "AutofillStates",
	"FirstPartySetsPreloaded", "PrivacySandboxAttestationsPreloaded", "MaskedDomainListPreloaded", "RecoveryImproved",
	"WasmTtsEngine", "pnacl", "screen_ai",
	"svc-uploads", // files that WebDriver clients uploaded
}

// transientFiles are files, at any depth, that the next run does not need.
var transientFiles = []string{"LOCK", "LOG", "LOG.old", "lockfile", "DevToolsActivePort"}

// isExcluded reports whether a snapshot omits an entry of a data directory, given by
// its slash-separated path.
func isExcluded(name string, isDir bool) bool {
	base, top := path.Base(name), !strings.Contains(name, "/")
	if isDir {
		return slices.Contains(cacheDirs, base) || top && slices.Contains(downloadedDirs, base)
	}
	return slices.Contains(transientFiles, base) || top && strings.HasPrefix(base, "Singleton") ||
		strings.HasPrefix(base, ".org.chromium.") ||
		slices.Contains([]string{".tmp", ".TMP", ".pma", ".dmp"}, path.Ext(base)) || strings.HasSuffix(base, "-shm")
}
