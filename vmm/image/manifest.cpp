#include "vmm/image/manifest.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <initializer_list>

namespace turnbox::image {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::fail;
using sys::Result;
using sys::Status;

constexpr std::string_view kFormat = "turnbox.image.v1";

json::array array_of(const std::vector<std::string>& strings) {
  json::array out;
  for (const auto& s : strings) out.emplace_back(s);
  return out;
}

Status only(const json::object& object, std::initializer_list<std::string_view> keys) {
  for (const auto& member : object) {
    if (std::ranges::find(keys, std::string_view(member.key())) == keys.end()) {
      return fail(ErrorKind::invalid, "unknown member " + std::string(member.key()));
    }
  }
  return {};
}

Result<std::string> text_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string())
    return fail(ErrorKind::invalid, std::string(key) + " is not a string");
  return std::string(value->get_string());
}

Result<std::vector<std::string>> texts_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_array())
    return fail(ErrorKind::invalid, std::string(key) + " is not an array");
  std::vector<std::string> out;
  for (const json::value& item : value->get_array()) {
    if (!item.is_string())
      return fail(ErrorKind::invalid, std::string(key) + " holds something that is no string");
    out.emplace_back(item.get_string());
  }
  return out;
}

Result<sys::Digest> digest_member(const json::object& object, std::string_view key) {
  TRY_ASSIGN(const std::string text, text_of(object, key));
  auto digest = sys::digest_from_hex(text);
  if (!digest) return fail(ErrorKind::invalid, std::string(key) + " is not a digest");
  return *digest;
}

Result<ImageFile> file_of(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return fail(ErrorKind::invalid, "files holds something that is no object");
  TRY(only(*object, {"name", "sha256", "size"}));
  ImageFile file;
  TRY_ASSIGN(file.name, text_of(*object, "name"));
  TRY_ASSIGN(file.sha256, digest_member(*object, "sha256"));
  TRY_ASSIGN(const std::string size, text_of(*object, "size"));
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), file.size);
  if (error != std::errc{} || end != size.data() + size.size())
    return fail(ErrorKind::invalid, "size is not a number");
  if (file.name.empty() || file.name.starts_with('.') || file.name.find('/') != std::string::npos) {
    return fail(ErrorKind::invalid, "files holds a wrong name");
  }
  return file;
}

Result<Recipe> recipe_of(const json::object& object) {
  const json::value* value = object.if_contains("recipe");
  if (value == nullptr || !value->is_object()) return fail(ErrorKind::invalid, "recipe is not an object");
  TRY(only(value->get_object(), {"packages", "suite", "version"}));
  Recipe recipe;
  TRY_ASSIGN(recipe.packages, texts_of(value->get_object(), "packages"));
  TRY_ASSIGN(recipe.suite, text_of(value->get_object(), "suite"));
  const json::value* version = value->get_object().if_contains("version");
  if (version == nullptr || !version->is_int64())
    return fail(ErrorKind::invalid, "version is not an integer");
  recipe.version = version->get_int64();
  return recipe;
}

Result<Manifest> manifest_of(const json::object& object) {
  TRY_ASSIGN(const std::string format, text_of(object, "format"));
  if (format != kFormat)
    return fail(ErrorKind::invalid, "format is " + format + ", not " + std::string(kFormat));
  TRY(only(object,
           {"agent", "files", "format", "kernel_version", "kernel_words", "modules", "packages", "recipe"}));
  Manifest manifest;
  TRY_ASSIGN(manifest.agent, digest_member(object, "agent"));
  const json::value* files = object.if_contains("files");
  if (files == nullptr || !files->is_array()) return fail(ErrorKind::invalid, "files is not an array");
  for (const json::value& value : files->get_array()) {
    TRY_ASSIGN(ImageFile file, file_of(value));
    manifest.files.push_back(std::move(file));
  }
  for (const char* name : {"initramfs", "kernel", "root.erofs"}) {
    if (manifest.file(name) == nullptr) return fail(ErrorKind::invalid, std::string("files lacks ") + name);
  }
  TRY_ASSIGN(manifest.kernel_version, text_of(object, "kernel_version"));
  TRY_ASSIGN(manifest.kernel_words, texts_of(object, "kernel_words"));
  TRY_ASSIGN(manifest.modules, texts_of(object, "modules"));
  TRY_ASSIGN(manifest.packages, texts_of(object, "packages"));
  TRY_ASSIGN(manifest.recipe, recipe_of(object));
  return manifest;
}

}  // namespace

const ImageFile* Manifest::file(std::string_view name) const {
  const auto at = std::ranges::find(files, name, &ImageFile::name);
  return at == files.end() ? nullptr : &*at;
}

std::string format_manifest(const Manifest& manifest) {
  json::array files;
  for (const ImageFile& file : manifest.files) {
    files.push_back(json::object{
        {"name", file.name}, {"sha256", to_hex(file.sha256)}, {"size", std::to_string(file.size)}});
  }
  // Members in the order of their keys; boost::json keeps it.
  const json::object object{{"agent", to_hex(manifest.agent)},
                            {"files", std::move(files)},
                            {"format", kFormat},
                            {"kernel_version", manifest.kernel_version},
                            {"kernel_words", array_of(manifest.kernel_words)},
                            {"modules", array_of(manifest.modules)},
                            {"packages", array_of(manifest.packages)},
                            {"recipe", json::object{{"packages", array_of(manifest.recipe.packages)},
                                                    {"suite", manifest.recipe.suite},
                                                    {"version", manifest.recipe.version}}}};
  return json::serialize(object);
}

Result<Manifest> parse_manifest(std::string_view bytes) {
  boost::system::error_code error;
  const json::value value = json::parse(bytes, error);
  if (error || !value.is_object()) return fail(ErrorKind::invalid, "not a JSON object");
  return manifest_of(value.get_object());
}

}  // namespace turnbox::image
