// Which tokens end a generation, by their text: what files say is often incomplete.
#pragma once
#include "text/tokenizer.h"

namespace monograph {

/// Adds to spec.eog: spec.eos, spec.eot and every entry whose text is a well-known end of turn or of text. Those found
/// by text become control tokens, whatever the file calls them, so that no user text turns into one (TK11).
void collect_eog(TokenizerSpec& spec);

}  // namespace monograph
