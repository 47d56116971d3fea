// Which graph serves what. Explicit, never guessed from a shape.
#pragma once
#include <optional>
#include <string_view>

namespace monograph {

/// What an engine instance is for.
enum class InstanceKind { kTarget, kSpeculativeTarget, kDraft, kEmbedding };
inline constexpr InstanceKind kInstanceKinds[] = {InstanceKind::kTarget, InstanceKind::kSpeculativeTarget,
                                                  InstanceKind::kDraft, InstanceKind::kEmbedding};
constexpr std::string_view to_string(InstanceKind kind) {
  constexpr std::string_view kNames[] = {"target", "speculative target", "draft", "embedding"};
  return kNames[static_cast<int>(kind)];
}

/// What a batch holds: any prompt tokens, or one new token per sequence, or proposals to verify.
enum class BatchKind { kPrefill, kDecode, kVerify };
inline constexpr BatchKind kBatchKinds[] = {BatchKind::kPrefill, BatchKind::kDecode, BatchKind::kVerify};

enum class GraphRole { kExtend, kDecode, kTargetVerify, kEmbeddingPrefill, kMtpDraftPrefill };
constexpr std::string_view to_string(GraphRole role) {
  constexpr std::string_view kNames[] = {"extend", "decode", "target_verify", "embedding_prefill", "mtp_draft_prefill"};
  return kNames[static_cast<int>(role)];
}

/// AUTO (SPEC A.1): the fixed table from instance kind and batch to role; nullopt where such a batch cannot be.
///
///                        prefill              decode    verify
///   target               extend               decode    -
///   speculative target   extend               decode    target_verify
///   draft                mtp_draft_prefill    decode    -
///   embedding            embedding_prefill    -         -
constexpr std::optional<GraphRole> auto_role(InstanceKind instance, BatchKind batch) {
  if (batch == BatchKind::kVerify)
    return instance == InstanceKind::kSpeculativeTarget ? std::optional(GraphRole::kTargetVerify) : std::nullopt;
  if (instance == InstanceKind::kEmbedding)
    return batch == BatchKind::kPrefill ? std::optional(GraphRole::kEmbeddingPrefill) : std::nullopt;
  if (batch == BatchKind::kDecode) return GraphRole::kDecode;
  return instance == InstanceKind::kDraft ? GraphRole::kMtpDraftPrefill : GraphRole::kExtend;
}

}  // namespace monograph
