// The C side of peer.hpp: no exception leaves it.
#include "peer.hpp"

namespace {

void put(char *message, size_t bytes, const std::string &text)
{
  if (bytes) snprintf(message, bytes, "%s", text.c_str());
}

std::vector<peers::Variant> taken(const peers::Problem &problem)
{
  std::vector<peers::Variant> list;
  for (const peers::Variant &variant : peers::variants_of(problem))
    if (variant.takes(problem, variant.parameter)) list.push_back(variant);
  return list;
}

unsigned count(const adlgen_peer_problem *problem, char *message, size_t bytes)
{
  unsigned n = unsigned(taken(*problem).size());
  if (!n) put(message, bytes, std::string(peers::library) + " as built has no kernel for these types, layouts and sizes");
  return n;
}

const char *variant_name(const adlgen_peer_problem *problem, unsigned index)
{
  static std::string name;
  name = taken(*problem).at(index).name;
  return name.c_str();
}

void *prepare(const adlgen_peer_problem *problem, unsigned index, const adlgen_peer_operands *operands,
              char *message, size_t bytes)
{
  std::string why;
  peers::Variant variant = taken(*problem).at(index);
  std::unique_ptr<peers::Prepared> prepared = variant.prepare(*problem, *operands, variant.parameter, why);
  if (!prepared) put(message, bytes, why);
  return prepared.release();
}

int launch(void *state, void *stream, char *message, size_t bytes)
{
  std::string why = static_cast<peers::Prepared *>(state)->launch(static_cast<cudaStream_t>(stream));
  if (why.empty()) return 0;
  put(message, bytes, why);
  return 1;
}

void release(void *state) { delete static_cast<peers::Prepared *>(state); }

} // namespace

extern "C" const adlgen_peer *adlgen_peer_get(void)
{
  static const adlgen_peer table = {ADLGEN_PEER_VERSION, 0,       peers::name, peers::library, count,
                                    variant_name,        prepare, launch,      release};
  return &table;
}
